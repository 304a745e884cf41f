from __future__ import annotations

import numpy as np
import pytest

from trn2model.errors import DataError, InvalidInputError
from trn2model.simulate.prefill import PassTime, Prefill
from trn2model.simulate.queue import Progress, ServingSetup, serving_steps, simulate_serving
from trn2model.simulate.replica import decode_table
from trn2model.simulate.requests import Requests, parse_trace, poisson_requests


def passes(time, **rules):
    """Passes that cost the same however many prompts they hold, and keep the replica as long as they take."""
    return Prefill(lambda tokens, _prompts: PassTime(*[np.atleast_1d(time(tokens))] * 2), **rules)


def chunks(size, time):
    """Chunks of a size, each at a time; the last is what is left."""
    return passes(
        lambda tokens: np.array([time(min(size, tokens - at)) for at in np.arange(0, tokens, size)]), interleaved=True
    )


prefill = passes(lambda tokens: tokens * 0.01)


def decode(_batch, context):
    return np.full_like(context, 0.1)


def two_requests():
    return Requests(np.array([0.0, 1.05]), np.array([100.0, 50.0]), np.array([5.0, 3.0]))


def test_two_requests_by_hand():
    trace = simulate_serving(ServingSetup(prefill, decode, 2), two_requests())
    # prefill to 1.0, one decode step to 1.1, prefill of the second to 1.6, both decode
    assert trace.first_token.tolist() == pytest.approx([1.0, 1.6])
    assert trace.finish.tolist() == pytest.approx([1.9, 1.8])
    assert trace.ttft.tolist() == pytest.approx([1.0, 0.55])
    assert trace.tpot.tolist() == pytest.approx([0.225, 0.1])
    assert trace.e2e.tolist() == pytest.approx([1.9, 0.75])
    assert trace.timeline.kind.tolist() == [0, 1, 0, 1, 1]
    assert trace.timeline.start.tolist() == pytest.approx([0.0, 1.0, 1.1, 1.6, 1.8])
    assert trace.timeline.end.tolist() == pytest.approx([1.0, 1.1, 1.6, 1.8, 1.9])
    assert trace.timeline.batch.tolist() == [1, 1, 1, 2, 1]
    assert trace.utilization() == pytest.approx({"prefill": 1.5 / 1.9, "decode": 0.4 / 1.9, "idle": 0.0})
    assert trace.output_tokens_per_s == pytest.approx(8 / 1.9)
    queue = trace.queue_length()
    assert queue.time.tolist() == pytest.approx([0.0, 1.05, 1.1])
    assert queue.value.tolist() == [0.0, 1.0, 0.0]
    system = trace.number_in_system()
    assert system.time.tolist() == pytest.approx([0.0, 1.05, 1.8, 1.9])
    assert system.value.tolist() == [1.0, 2.0, 1.0, 0.0]


def test_a_full_replica_makes_the_next_wait():
    trace = simulate_serving(ServingSetup(prefill, decode, 1), two_requests())
    assert trace.start.tolist() == pytest.approx([0.0, 1.4])
    assert trace.finish.tolist() == pytest.approx([1.4, 2.1])


def test_the_least_loaded_replica_gets_the_request():
    requests = Requests(np.array([0.0, 0.1, 5.0]), np.array([1000.0, 10.0, 10.0]), np.array([20.0, 2.0, 2.0]))
    trace = simulate_serving(ServingSetup(prefill, decode, 4, 2), requests)
    assert trace.worker.tolist() == [0, 1, 1]
    assert trace.ttft.tolist() == pytest.approx([10.0, 0.1, 0.1])
    in_turn = simulate_serving(ServingSetup(prefill, decode, 4, 2, dispatch="round-robin"), requests)
    assert in_turn.worker.tolist() == [0, 1, 0]


def test_chunks_let_decode_through():
    requests = Requests(np.array([0.0, 1.05]), np.array([100.0, 90.0]), np.array([5.0, 3.0]))
    trace = simulate_serving(ServingSetup(chunks(30, lambda size: size * 0.01), decode, 2), requests)
    # chunks of 0.3 s for the second, a decode step of the first after each
    assert trace.finish[0] == pytest.approx(1.0 + 0.1 + 0.3 + 0.1 + 0.3 + 0.1 + 0.3 + 0.1)
    assert trace.first_token[1] == pytest.approx(1.1 + 0.3 + 0.1 + 0.3 + 0.1 + 0.3)


def test_while_slots_are_free_for_those_that_wait_no_step_runs_between_chunks():
    lengths, outputs = np.array([30.0, 60.0, 60.0]), np.array([9.0, 3.0, 3.0])
    requests = Requests(np.array([0.0, 0.35, 0.35]), lengths, outputs)
    trace = simulate_serving(ServingSetup(chunks(30, lambda size: size * 0.01), decode, 3), requests)
    # one step to 0.4; the second prompt in two chunks at once; the third with a step after its first
    assert trace.first_token.tolist() == pytest.approx([0.3, 1.0, 1.7])


def test_waiting_prompts_share_a_pass():
    requests = Requests(np.zeros(5), np.full(5, 100.0), np.full(5, 3.0))
    trace = simulate_serving(ServingSetup(passes(lambda n: n * 0.01, most_prompts=lambda _n: 2), decode, 8), requests)
    assert trace.first_token.tolist() == pytest.approx([1.0, 1.0, 2.0, 2.0, 3.0])
    assert trace.finish.tolist() == pytest.approx([3.2] * 5)
    assert trace.timeline.batch.tolist() == [2, 2, 1, 5]
    narrow = simulate_serving(ServingSetup(passes(lambda n: n * 0.01, most_prompts=lambda _n: 4), decode, 2), requests)
    assert narrow.timeline.batch.max() == 2


def test_unequal_prompts_fill_a_pass_in_proportion():
    requests = Requests(np.zeros(4), np.array([100.0, 50.0, 50.0, 100.0]), np.full(4, 2.0))

    def most(tokens):
        return int(200 // tokens)

    padded = simulate_serving(ServingSetup(passes(lambda n: n * 0.01, most_prompts=most), decode, 8), requests)
    assert padded.first_token.tolist() == pytest.approx([1.0, 1.0, 1.0, 2.0])
    rules = {"most_prompts": most, "padded": False}
    packed = simulate_serving(ServingSetup(passes(lambda n: n * 0.01, **rules), decode, 8), requests)
    assert packed.first_token.tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3, 5 / 3])


def test_a_pass_waits_for_more_slots_until_they_have_idled_as_long_as_it_stalls():
    outputs = np.array([11.0, 31.0, 91.0, 91.0, 5.0, 5.0, 5.0])
    requests = Requests(np.zeros(7), np.full(7, 100.0), outputs)
    setup = ServingSetup(passes(lambda n: n * 0.01, most_prompts=lambda _n: 4), decode, 4)
    trace = simulate_serving(setup, requests)
    # the first slot is free at 2.0, but the three running would lose a second each; when the second gets free at 4.0
    # the first has idled for the 2 s that the two left lose
    assert trace.finish[:2].tolist() == pytest.approx([2.0, 4.0])
    assert trace.start[4:6].tolist() == pytest.approx([4.0, 4.0])
    alone = simulate_serving(setup, Requests(np.zeros(5), np.full(5, 100.0), outputs[:5]))
    assert alone.start[4] == pytest.approx(2.0)  # with a slot for everyone who waits there is nothing to wait for


def test_phases_mix():
    requests = Requests(np.array([0.0, 1.05]), np.array([100.0, 55.0]), np.array([9.0, 3.0]))
    mixed = passes(lambda n: n * 0.01, overlap=0.6)
    trace = simulate_serving(ServingSetup(mixed, decode, 2), requests)
    # a step to 1.1, then a pass of 0.55 with five steps, each of which adds 0.4 of its 0.1
    assert trace.first_token[1] == pytest.approx(1.1 + 0.55 + 5 * 0.04)
    assert trace.finish[0] == pytest.approx(1.1 + 0.55 + 5 * 0.04 + 2 * 0.1)
    short = Requests(np.array([0.0, 1.05]), np.array([100.0, 55.0]), np.array([5.0, 3.0]))
    trace = simulate_serving(ServingSetup(mixed, decode, 2), short)
    assert trace.first_token[1] == pytest.approx(1.1 + 0.55 + 3 * 0.04)
    assert trace.finish[0] == pytest.approx(trace.first_token[1])


def test_pipeline_stages_take_the_next_pass_before_the_first_token():
    four = Prefill(lambda _tokens, _prompts: PassTime(np.array([0.8]), np.array([0.2])))
    requests = Requests(np.zeros(3), np.full(3, 100.0), np.array([3.0, 3.0, 1.0]))
    trace = simulate_serving(ServingSetup(four, decode, 3), requests)
    assert trace.start.tolist() == pytest.approx([0.0, 0.2, 0.4])
    assert trace.first_token.tolist() == pytest.approx([0.8, 1.0, 1.2])
    assert trace.finish.tolist() == pytest.approx([1.0, 1.2, 1.2])
    one_slot = simulate_serving(ServingSetup(four, decode, 1), requests)
    assert one_slot.start.tolist() == pytest.approx([0.0, 1.0, 2.0])  # the slot is held to the end
    apart = ServingSetup(four, decode, 3, prefill_workers=1, transfer_time=lambda n: n * 0.001)
    assert simulate_serving(apart, requests).first_token.tolist() == pytest.approx([0.9, 1.1, 1.3])


def test_prefill_workers_share_passes_too():
    requests = Requests(np.array([0.0, 0.1, 0.2, 0.3]), np.full(4, 100.0), np.full(4, 2.0))
    two = passes(lambda n: n * 0.01, most_prompts=lambda _n: 2)
    trace = simulate_serving(ServingSetup(two, decode, 8, prefill_workers=1), requests)
    assert trace.first_token.tolist() == pytest.approx([1.0, 2.0, 2.0, 3.0])


def test_one_token_ends_with_the_prefill():
    requests = Requests(np.array([0.0]), np.array([100.0]), np.array([1.0]))
    trace = simulate_serving(ServingSetup(prefill, decode, 1), requests)
    assert trace.finish.tolist() == trace.first_token.tolist() == [1.0]
    assert np.isnan(trace.percentiles()["tpot"]["p50"])
    assert trace.percentiles()["e2e"]["p99"] == 1.0


def test_progress_is_reported_and_a_run_can_be_left():
    requests = poisson_requests(5.0, 1000, 100, 50)
    seen: list[Progress] = []
    simulate_serving(ServingSetup(prefill, decode, 4), requests, seen.append)
    assert len(seen) >= 5
    assert [report.finished for report in seen] == sorted(report.finished for report in seen)
    assert all(report.total == 1000 and 0 <= report.finished <= 1000 for report in seen)
    steps = serving_steps(ServingSetup(prefill, decode, 4), requests)
    assert next(steps).finished < 1000
    steps.close()


def test_tables_interpolate_and_extend():
    steps = decode_table([1, 9], [0, 1000], [[1.0, 2.0], [5.0, 10.0]])
    np.testing.assert_allclose(steps(1.0, np.array([0.0, 500.0, 2000.0])), [1.0, 1.5, 3.0])
    np.testing.assert_allclose(steps(5.0, np.array([0.0, 1000.0])), [3.0, 6.0])
    np.testing.assert_allclose(steps(17.0, np.array([0.0])), [9.0])
    compiled = decode_table([32], [0, 1000], [[1.0, 2.0]])
    np.testing.assert_allclose(compiled(3.0, np.array([500.0])), [1.5])


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda: decode_table([], [1], [[1]]), "decode_batches"),
        (lambda: decode_table([1], [1, 1], [[1, 1]]), "decode_contexts"),
        (lambda: decode_table([1], [1, 2], [1, 2]), "decode_times"),
        (lambda: simulate_serving(ServingSetup(prefill, decode, 0), two_requests()), "max_concurrency"),
        (lambda: simulate_serving(ServingSetup(prefill, decode, 1, 0), two_requests()), "num_replicas"),
        (lambda: simulate_serving(ServingSetup(passes(abs, overlap=1.1), decode, 1), two_requests()), "overlap"),
        (lambda: simulate_serving(ServingSetup(prefill, decode, 1, dispatch="x"), two_requests()), "dispatch"),
        (
            lambda: simulate_serving(ServingSetup(prefill, decode, 1, tokens_per_step=0.5), two_requests()),
            "tokens_per_step",
        ),
        (
            lambda: simulate_serving(ServingSetup(prefill, decode, 1, prefill_workers=-1), two_requests()),
            "prefill_workers",
        ),
        (lambda: simulate_serving(ServingSetup(passes(lambda n: -n), decode, 1), two_requests()), "prefill_time"),
        (lambda: simulate_serving(ServingSetup(prefill, lambda _b, c: c * np.nan, 1), two_requests()), "decode_time"),
        (lambda: poisson_requests(0.0, 1, 1, 1), "rate"),
        (lambda: poisson_requests(1.0, 0, 1, 1), "num_requests"),
        (lambda: poisson_requests(1.0, 1, 0, 1), "input_tokens"),
        (lambda: poisson_requests(1.0, 1, 1, 0), "output_tokens"),
        (lambda: poisson_requests(1.0, 1, 1, 1, variation=-1), "variation"),
    ],
)
def test_what_means_nothing_is_refused(build, field):
    with pytest.raises(InvalidInputError) as caught:
        build()
    assert caught.value.field == field


def test_poisson_lengths_and_gaps():
    requests = poisson_requests(4.0, 40_000, 300, 60, seed=8, variation=0.5)
    assert np.diff(requests.arrival).mean() == pytest.approx(0.25, rel=0.02)
    assert requests.input_tokens.mean() == pytest.approx(300, rel=0.02)
    assert requests.output_tokens.std() / requests.output_tokens.mean() == pytest.approx(0.5, rel=0.05)
    assert np.all(requests.input_tokens == np.rint(requests.input_tokens))
    fixed = poisson_requests(4.0, 10, 300, 60, seed=8)
    assert set(fixed.input_tokens.tolist()) == {300.0}
    assert len(fixed) == 10


def test_a_trace_is_read_and_sorted():
    requests = parse_trace("\ufeffid, Arrival ,input,output\na,2.5,100,7\n\nb,0,1e2,1\n")
    assert requests.arrival.tolist() == [0.0, 2.5]
    assert requests.input_tokens.tolist() == [100.0, 100.0]
    assert requests.output_tokens.tolist() == [1.0, 7.0]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_end_of_line_will_do(end):
    requests = parse_trace(end.join(["arrival,input,output", "0,10,5", "1,20,6", ""]))
    assert requests.input_tokens.tolist() == [10.0, 20.0]
    with pytest.raises(DataError, match="row 3, column input"):
        parse_trace(end.join(["arrival,input,output", "0,10,5", "1,x,6"]))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named_as_such(encoding):
    content = "arrival,input,output\n0,10,5\n".encode(encoding)
    with pytest.raises(DataError, match=r"UTF-16 .* save it as UTF-8"):
        parse_trace(content.decode("utf-8", "replace"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "trace row 1: no column arrival, input, output; the header must hold arrival,input,output"),
        ("arrival,input\n0,1", "trace row 1: no column output; the header must hold arrival,input,output"),
        ("arrival,input,output\n", "trace: 0 rows of requests; allowed are 1 to 200000"),
        ("arrival,input,output\n0,1,1\n1,abc,1", "trace row 3, column input: 'abc' is not a whole number from 1 to"),
        ("arrival,input,output\n0,1,0", "trace row 2, column output: '0' is not a whole number"),
        ("arrival,input,output\n0,1.5,1", "trace row 2, column input: '1.5' is not a whole number"),
        ("arrival,input,output\n-1,1,1", "trace row 2, column arrival: '-1' is not a time in seconds of at least 0"),
        ("arrival,input,output\nnan,1,1", "trace row 2, column arrival: 'nan' is not a time"),
        ("arrival,input,output\ninf,1,1", "trace row 2, column arrival: 'inf' is not a time"),
        ("arrival,input,output\n0,inf,1", "trace row 2, column input: 'inf' is not a whole number"),
        ("arrival,input,output\n0,1", "trace row 2, column output: '' is not a whole number"),
        ("arrival,input,output\n0,1,1\n1e300,1,1", "trace row 3, column arrival: '1e300' is not a time in seconds of"),
        ("arrival,input,output\n0,1," + "9" * 400, f"trace row 2, column output: '{'9' * 40}' is not a whole number"),
        ("arrival;input;output\n0;1;1", "trace row 1: its columns are separated by semicolons; separate columns with"),
        ("arrival\tinput\toutput\n0\t1\t1", "trace row 1: its columns are separated by tabs; separate columns with"),
        ("a\0r\0,\0", "trace: this looks like UTF-16 or binary, not like UTF-8 text; save it as UTF-8"),
        ('arrival,input,output\n0,1,"' + "1" * 140_000, "trace row 2: a cell is longer than 131,072 characters"),
    ],
)
def test_a_bad_trace_names_row_and_column(text, message):
    with pytest.raises(DataError) as caught:
        parse_trace(text)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_long_queue_is_computed_event_by_event_not_step_by_step():
    count = 20_000
    lengths = np.full(count, 400.0)
    requests = Requests(np.linspace(0.0, count / 2, count), lengths, lengths)
    calls = []

    def counted(_batch, context):
        calls.append(len(context))
        return np.full_like(context, 0.1)

    trace = simulate_serving(ServingSetup(prefill, counted, 4, num_replicas=8), requests)
    assert len(calls) < 2.5 * count  # replanned when a batch changes, not at each arrival on each replica
    for worker in range(8):
        assert np.all(np.diff(trace.start[trace.worker == worker]) > 0.0)


def test_arrivals_do_not_change_what_runs_meanwhile():
    first = Requests(np.array([0.0]), np.array([100.0]), np.array([50.0]))
    times = np.array([0.0, *np.linspace(1.3, 4.7, 40)], dtype=np.float64)
    many = Requests(times, np.full(41, 100.0), np.full(41, 50.0))
    alone = simulate_serving(ServingSetup(prefill, decode, 1), first)
    crowded = simulate_serving(ServingSetup(prefill, decode, 1), many)
    assert crowded.finish[0] == alone.finish[0]
    assert crowded.timeline.end[1] == alone.timeline.end[1]
