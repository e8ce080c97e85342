"""Charts: the table, the text chart and the SVG picture of a simulation."""
