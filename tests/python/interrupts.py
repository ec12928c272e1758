"""Ctrl-C, for tests of what waits."""

import signal
import threading
import time

AFTER_S = 0.05
ENOUGH_S = 60.0  # the time-out of a call that Ctrl-C is to end


def expect_ctrl_c_to_end(call):
    """It comes while the call waits, and ends it before its time-out of ENOUGH_S does.

    Another thread of Python sends the signal, which it could not if the one that waits kept the
    interpreter.
    """
    main = threading.main_thread().ident
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job's is none
    calls, over = threading.Event(), threading.Event()

    def press():
        calls.wait()  # so that a slow start of this thread is no part of the time
        if not over.wait(AFTER_S):
            signal.pthread_kill(main, signal.SIGINT)

    pressing = threading.Thread(target=press)
    began, has_come = time.monotonic(), False
    try:
        pressing.start()
        try:
            calls.set()
            call()
        finally:
            over.set()
            pressing.join()
    except KeyboardInterrupt:  # also one that nobody has looked for until the call ended
        has_come = True
    finally:
        signal.signal(signal.SIGINT, before)
    assert has_come and time.monotonic() - began < ENOUGH_S
