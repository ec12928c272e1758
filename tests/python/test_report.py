"""The lines of a run become numbers, a picture and a page."""

import json
import math
import os
import subprocess
import sys

import pytest
from ffdl.report import cluster
from ffdl.report.command import main
from ffdl.report.page import draw, label_shifts, page
from ffdl.report.summary import read_events, summarise

import ffdl


def write(path, events, end="\n"):
    path.write_text("\n".join(map(json.dumps, events)) + end)


def step(number, t_s, worker, samples=10, loss=1.0, **more):
    return {"event": "step", "t_s": t_s, "worker": worker, "step": number, "samples": samples,
            "loss": loss, "workers": 2} | more


def steady(steps=40, gap=0.01):
    return [step(n, 100 + n * gap, worker, loss=1 / n)
            for n in range(1, steps + 1) for worker in (0, 1)]


def test_steps_of_all_workers_are_put_together(tmp_path):
    write(tmp_path / "worker-0.jsonl", [one for one in steady() if one["worker"] == 0])
    write(tmp_path / "worker-1.jsonl", [one for one in steady() if one["worker"] == 1])
    summary = summarise(read_events(tmp_path), "two")
    assert summary.title == "two"
    (loss,) = summary.losses
    assert loss.values == pytest.approx([1 / n for n in range(1, 41)])
    (rate,) = summary.throughput
    assert rate.values[1:-1] == pytest.approx([2000] * (len(rate.values) - 2), rel=0.3)
    assert summary.workers[0].values == [2] * 40
    assert summary.pauses[0].values == pytest.approx([10] * 39)
    assert summary.stalls == []


def test_the_loss_of_a_step_is_weighed_by_samples(tmp_path):
    write(tmp_path / "run.jsonl", [step(1, 0, 0, 30, 1.0), step(1, 0.5, 1, 10, 5.0),
                                   step(2, 1, 0, 0, None), step(2, 1, 1, 10, 2.0)])
    summary = summarise(read_events(tmp_path / "run.jsonl"), "run")
    assert summary.losses[0].values == [2.0, 2.0]
    assert summary.losses[0].seconds == [0, 1]


def test_a_stall_is_found_and_says_what_happened(tmp_path):
    events = steady()
    for one in events:
        one["t_s"] += 0.3 * (one["step"] > 20)
    events.append({"event": "kill", "t_s": 100.21, "worker": 1})
    write(tmp_path / "run.jsonl", events)
    summary = summarise(read_events(tmp_path), "run")
    (stall,) = summary.stalls
    assert stall.milliseconds == pytest.approx(310)
    assert stall.seconds == pytest.approx(0.19)
    assert stall.reason == "worker 1: kill"


def parameter_server_run():
    return [
        {"event": "start", "t_s": 0.0, "example": "digits",
         "options": {"learners": 2, "synchrony": "async", "rule": "adam"}},
        *({"event": "progress", "t_s": t / 10, "samples_per_s": 100.0, "train_loss": 1 / (t + 1),
           "val_loss": None} for t in range(1, 9)),
        {"event": "restart", "t_s": 0.5, "role": "server", "recovery_ms": 20.0},
        {"event": "summary", "t_s": 0.9, "staleness": [1, 3, 0, 0], "test_accuracy": 0.98},
    ]


def test_a_run_around_a_parameter_server(tmp_path):
    write(tmp_path / "run.jsonl", parameter_server_run())
    summary = summarise(read_events(tmp_path), "run")
    assert summary.title == "digits, 2 learners, async, adam"
    assert [curve.name for curve in summary.losses] == ["training"]
    assert summary.staleness == [1, 3, 0, 0]
    assert [(stall.milliseconds, stall.reason) for stall in summary.stalls] == [
        (20.0, "server was away")]
    numbers = dict(summary.numbers)
    assert numbers["gradients from the newest weights"] == "25%"
    assert numbers["test accuracy"] == "98.0%" and numbers["samples per second"] == "100"


def test_lines_that_a_kill_has_cut(tmp_path):
    path = tmp_path / "worker-0.jsonl"
    path.write_text(json.dumps(step(1, 5, 0)) + "\n" + '{"event": "ste' + json.dumps(step(2, 6, 0))
                    + "\n" + json.dumps(step(3, 7, 0)) + "\n" + '{"event": "step", "t_')
    assert [event["step"] for event in read_events(tmp_path)] == [1, 3]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("no JSON\n", ffdl.Corrupt, "line 1"),
        ("[1]\n", ffdl.Corrupt, "no object with an 'event'"),
        ('{"event": "step"}\n', ffdl.Corrupt, "t_s"),
        ("", ffdl.Corrupt, "are empty"),
        ('{"event": "start", "t_s": 1}\n', ffdl.Corrupt, "no event is 'step' or 'progress'"),
    ],
)
def test_what_is_no_run(text, error, message, tmp_path):
    (tmp_path / "run.jsonl").write_text(text)
    with pytest.raises(error, match=message):
        summarise(read_events(tmp_path), "run")
    with pytest.raises(ffdl.NotFound, match=r"no \*\.jsonl file"):
        read_events(tmp_path / "elsewhere")


def test_the_command_draws_a_picture_and_a_page(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    events = [*steady(), {"event": "kill", "t_s": 100.2, "worker": "<b>"}]
    write(tmp_path / "run.jsonl", events)
    assert main([str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    assert "usual time of a step: 10.00 ms" in capsys.readouterr().out
    picture = (tmp_path / "out" / "report.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) > 10_000
    text = (tmp_path / "out" / "report.html").read_text()
    assert "data:image/png;base64," in text and "http" not in text and "src=\"/" not in text
    assert "&lt;b&gt;" in text and "<b>" not in text
    assert main([str(tmp_path / "none")]) == 1
    assert "no *.jsonl file" in capsys.readouterr().err


def simulated():
    jobs = [{"job": f"{name}-{i}", "application": name, "submitted_s": 60.0 * i,
             "completed_s": None if i == 3 else 4000.0 + i}
            for i, name in enumerate(["bert", "ncf", "bert", "ncf"])]
    timeline = [[60, 0, 4], [120, 1, 1], [600, 0, 2], [600, 2, 8], [4000, 0, 0], [4001, 1, 0],
                [4002, 2, 0]]
    return {"per_job": jobs, "timeline": timeline, "makespan_s": 4002, "jobs": 4, "completed": 3,
            "mean_jct_s": 3900.0, "utilisation": 0.5}


def test_a_simulated_cluster_is_drawn(tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")
    figure, (above, below) = pyplot.subplots(2, 1)
    cluster.draw_allocation(above, simulated())
    assert [text.get_text() for text in above.get_legend().get_texts()] == ["bert", "ncf"]
    top = max(point[1] for layer in above.collections for path in layer.get_paths()
              for point in path.vertices)
    assert top == 11  # 2 and 8 of bert, 1 of ncf
    cluster.draw_jobs(below, simulated())
    (lines,) = below.collections
    # Waiting and all of each that ended, then what each had: 4, 1, 2 and 8.
    assert len(lines.get_segments()) == 3 + 4
    pyplot.close(figure)
    cluster.draw(simulated(), tmp_path / "out.png")
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    nothing = simulated() | {"per_job": [], "timeline": [], "makespan_s": 0}
    cluster.draw(nothing, tmp_path / "nothing.svg")
    assert b"<svg" in (tmp_path / "nothing.svg").read_bytes()


def test_the_picture_among_the_arguments_of_simulate():
    assert cluster.picture_of(["--json", "--timeline", "a.png", "--seed", "2"]) == "a.png"
    assert cluster.picture_of(["--timeline=b.svg"]) == "b.svg"
    for others in ([], ["--json"], ["--timeline"], ["--timeline", "data.json"]):
        assert cluster.picture_of(others) == ""
    assert cluster.in_place_of("a.png", "x", ["a.png", "--timeline", "a.png", "--seed"]) == [
        "a.png", "--timeline", "x", "--seed"]
    assert cluster.in_place_of("a.png", "x", ["--timeline=a.png"]) == ["--timeline=x"]


def test_simulate_draws_a_timeline(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    trace = tmp_path / "trace.csv"
    trace.write_text("job_id,submission_time,duration,num_gpu\na,100,600,1\nb,200,900,2\n")
    command = [sys.executable, "-m", "ffdl", "simulate", "--workload", trace, "--nodes", "1",
               "--gpus-per-node", "2", "--json"]
    picture = tmp_path / "out.png"
    done = subprocess.run([*command, "--timeline", picture], capture_output=True, text=True,
                          timeout=300, check=True)
    assert json.loads(done.stdout)["completed"] == 2  # the document alone
    assert picture.read_bytes().startswith(b"\x89PNG")
    wrong = subprocess.run([*command, "--timeline", tmp_path / "none" / "out.png"],
                           capture_output=True, text=True, timeout=300, check=False)
    assert wrong.returncode == 1 and "name another file" in wrong.stderr
    unknown = subprocess.run([*command, "--policy", "best", "--timeline", picture],
                             capture_output=True, text=True, timeout=300, check=False)
    assert unknown.returncode == 2


def test_each_kind_of_run_has_its_panels(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    sizes = []
    for number, events in enumerate([steady(), parameter_server_run()]):
        path = tmp_path / f"{number}.jsonl"
        write(path, events)
        summary = summarise(read_events(path), "run")
        picture = draw(summary)
        sizes.append(int.from_bytes(picture[20:24], "big"))  # the height
        assert summary.title in page(summary, picture)
    assert sizes[0] != sizes[1]


def test_labels_of_what_happened_at_a_time_do_not_lie_on_each_other():
    assert label_shifts([100.0, 101.0, 103.0, 200.0], 580.0) == [0.0, 8.0, 15.0, 0.0]
    assert label_shifts([570.0, 571.0, 572.0], 580.0) == [0.0, 0.0, 0.0]


def test_a_log_of_a_process(tmp_path):
    with ffdl.report.RunLog(tmp_path / "run", "worker-7") as log:
        log.write("step", step=1, samples=3, loss=math.nan, workers=1)
        log.write("step", step=2, samples=3, loss=0.5, workers=1)
        events = read_events(tmp_path / "run")  # each line is there at once
    assert [event["loss"] for event in events] == [None, 0.5]
    assert events[0]["worker"] == "worker-7" and events[0]["t_s"] == 0
    told = {"FFDL_STORE": "mem://", "FFDL_JOB": "job", "FFDL_WORKER_ID": "worker-3"}
    subprocess.run([sys.executable, "-c", f"import ffdl; ffdl.report.RunLog({str(tmp_path)!r})"],
                   env=os.environ | told, check=True, timeout=300)
    assert (tmp_path / "worker-3.jsonl").exists()
