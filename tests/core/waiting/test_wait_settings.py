"""The settings of a wait that a profile gives."""

import pytest

from pollkit import Adaptive, Backoff, ConfigError, Job, Profile
from pollkit.core.waiting.wait_settings import WaitSettings


def test_a_weight_divides_the_price_of_an_adaptive_pace():
    settings = WaitSettings.from_profile(Profile(pace="adaptive price=2s", weight=4))
    assert settings.pace == Adaptive(price=0.5)
    assert settings.weight == 4


def test_a_weight_does_not_change_other_paces():
    assert WaitSettings.from_profile(Profile(pace="backoff 2s..9s", weight=4)).pace == Backoff(2, 9)


@pytest.mark.parametrize("weight", [0, -1, 1000.5, float("nan"), True, "5", None])
def test_a_bad_weight_is_an_error(weight):
    with pytest.raises(ConfigError, match="^weight must be a number above 0, up to 1000, not "):
        WaitSettings.from_profile(Profile(weight=weight))


def test_a_hold_may_need_an_index_or_the_url_of_the_profile():
    url = "http://a/{id}?index={index}&wait={hold}s"
    holding = WaitSettings.from_profile(Profile(url=url, hold="25s")).holding
    assert holding.longest_s == 25.0 and holding.allowed_s(Job("a"), 0.0) == 0.0
    by_header = Profile(url="http://a/{id}", hold="25s", headers={"Prefer": "wait={hold}"})
    holding = WaitSettings.from_profile(by_header).holding
    assert holding.allowed_s(Job("a", url="http://a/1"), 0.0) == 25.0
    assert WaitSettings.from_profile(Profile()).holding is None
