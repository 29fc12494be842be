from kgm.simulation.play.virtual_clock import VirtualClock


def test_calls_are_made_in_order_of_time_then_of_scheduling():
    clock, done = VirtualClock(100.0), []
    clock.after(5, done.append, "b")
    clock.at(103, done.append, "a")
    clock.after(5, done.append, "c")
    while clock.next_at() is not None:
        clock.run_next()
    assert done == ["a", "b", "c"]
    assert clock.now_ms == 105


def test_a_cancelled_call_is_not_made():
    clock, done = VirtualClock(0.0), []
    first = clock.after(1, done.append, "first")
    clock.after(2, done.append, "second")
    first.cancel()
    assert clock.next_at() == 2
    clock.run_next()
    assert done == ["second"]
    assert clock.next_at() is None


def test_a_call_for_the_past_is_made_now():
    clock, done = VirtualClock(50.0), []
    clock.at(10, done.append, "late")
    assert clock.next_at() == 50
    clock.run_next()
    assert done == ["late"]
