"""Properties are about results: how long one example takes on a busy machine says nothing."""

from hypothesis import settings

settings.register_profile("busy-machine", deadline=None, max_examples=60)
settings.load_profile("busy-machine")
