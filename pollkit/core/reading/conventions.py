"""Where replies usually say things: looked at in this order where no profile names a place."""

from .json_paths import Path

STATUS_PLACES = tuple(
    map(
        Path,
        (
            "status",
            "state",
            "Status",
            "State",
            "processing_status",
            "task_status",
            "job_status",
            "jobStatus",
            "done",
            "data.state",
            "data.status",
            "job.status",
            "job.state",
            "task.status",
            "status.state",
            "status.status",
            "status.phase",
            "data.job.status",
            "data.job_status",
            "data.task.status",
            "data.attributes.status",
            "result.status",
            "properties.provisioningState",
        ),
    )
)
DENIALS = tuple(map(Path, ("success", "ok", "data.success")))  # false beside 'done': it went wrong
VERDICTS = tuple(
    map(Path, ("conclusion", "data.conclusion", "outcome"))
)  # a word of their own for how it went
OVER = ("completed", "complete", "finished", "done", "ended")  # the job is over, well or not
BLAMES = tuple(map(Path, ("error", "errorResult", "data.error", "status.errorResult")))
ENVELOPE = (
    "success",
    "ok",
    "true",
)  # may say that the call worked, rather than that the job is done
RESULT_PLACES = tuple(
    map(Path, ("result", "output", "response", "data.result", "data.output", "results"))
)
ERROR_PLACES = tuple(
    map(
        Path,
        (
            "error.message",
            "error.detail",
            "error",
            "errors.0.message",
            "data.error.message",
            "data.error",
            "error_message",
            "errorMessage",
            "failure_reason",
            "reason",
            "message",
            "detail",
            "errors",
        ),
    )
)
CODE_PLACES = tuple(
    map(Path, ("error.code", "errors.0.code", "data.error.code", "error_code", "errorCode"))
)
PROGRESS_PLACES = tuple(
    map(
        Path,
        (
            "progress",
            "percent",
            "percentage",
            "percentComplete",
            "percent_complete",
            "data.progress",
            "progress.percent",
            "progress.percentage",
            "job.progress",
            "metadata.progressPercent",
        ),
    )
)
CREATED_PLACES = tuple(
    map(
        Path,
        (
            "created_at",
            "createdAt",
            "created",
            "createdDateTime",
            "started_at",
            "startedAt",
            "started",
            "data.created_at",
        ),
    )
)
FINISHED_PLACES = tuple(
    map(
        Path,
        (
            "finished_at",
            "finishedAt",
            "completed_at",
            "completedAt",
            "finished",
            "ended_at",
            "endedAt",
            "completedDateTime",
            "endTime",
            "end_time",
            "data.finished_at",
            "data.completed_at",
        ),
    )
)
ITEM_PLACES = tuple(map(Path, ("items", "jobs", "data", "results", "tasks")))
