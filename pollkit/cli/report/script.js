"use strict";
(function () {
  var form = document.getElementById("filter");
  if (!form) return;
  var table = document.querySelector("#jobs table");
  var body = table.tBodies[0];
  var rows = Array.prototype.slice.call(body.rows);
  var heads = Array.prototype.slice.call(table.tHead.rows[0].cells);
  var sorted = heads.length - 1, down = false;

  function filter() {
    var find = form.find.value.toLowerCase(), shown = 0;
    rows.forEach(function (row) {
      var cells = row.cells;
      var ok = (!find || (cells[0].title || cells[0].textContent).toLowerCase().indexOf(find) >= 0) &&
        (!form.label.value || form.label.value === "=" + cells[1].textContent) &&
        (!form.state.value || form.state.value === "=" + cells[2].firstChild.className);
      row.hidden = !ok;
      if (ok) shown++;
    });
    table.className = "zoom" + form.zoom.value;
    form.count.value = shown + " of " + rows.length + " shown";
    save();
  }

  function value(row) {
    var cell = row.cells[sorted];
    var text = cell.dataset.v || cell.textContent;
    return text !== "" && !isNaN(text) ? Number(text) : text;
  }

  function sort() {
    rows.sort(function (a, b) {
      var x = value(a), y = value(b);
      if (typeof x !== typeof y) { x = String(x); y = String(y); }
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    });
    rows.forEach(function (row) { body.appendChild(row); });
    heads.forEach(function (head, i) {
      if (i === sorted) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    save();
  }

  // The choices are kept in the address, so that a page that refreshes itself keeps them, too.
  function save() {
    var state = [sorted, down ? 1 : 0, form.label.value, form.state.value, form.find.value, form.zoom.value];
    history.replaceState(null, "", "#" + state.map(encodeURIComponent).join("&"));
  }

  function restore() {
    var state = location.hash.slice(1).split("&").map(decodeURIComponent);
    if (state.length !== 6 || !heads[state[0]]) return;
    sorted = Number(state[0]);
    down = state[1] === "1";
    form.label.value = state[2];
    form.state.value = state[3];
    form.find.value = state[4];
    form.zoom.value = state[5];
  }

  heads.forEach(function (head, i) {
    head.firstChild.addEventListener("click", function () {
      down = i === sorted ? !down : false;
      sorted = i;
      sort();
    });
  });
  form.addEventListener("input", filter);
  form.addEventListener("submit", function (event) { event.preventDefault(); });
  try { restore(); } catch (error) { /* not one of our addresses */ }
  form.hidden = false;
  sort();
  filter();
})();
