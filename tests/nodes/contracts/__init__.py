"""What every backend promises, as async functions: the same assertions for all.

Every public coroutine function of `processes`, `files` and `network` that takes a `Stage` called `on` is a contract.
`run.py` runs them where the backend works (inside its enclosure) and writes one result per contract;
`test_backends.py` reports them.
"""
