"""The usual fields of job APIs, for replies that no profile describes.

Each table lists paths in the order in which they are tried. The usual status words are in
`status_words`, the usual headers in `rate_limit_headers`.
"""

from typing import Tuple

from .json_paths import Path


def _paths(text: str) -> Tuple[Path, ...]:
    return tuple(map(Path, text.split()))


# The paths on the top level come first: see `status_field`.
STATUS_PATHS = _paths(
    """
    status state Status State processing_status task_status job_status jobStatus state_type done
    data.state data.status job.status job.state task.status status.state status.status status.phase
    state.type
    data.job.status data.job_status data.task.status data.attributes.status result.status
    properties.provisioningState
    """
)
# These words on the top level may only mean that the call worked, not that the job is done.
ENVELOPE_WORDS = ("success", "ok", "true")

RESULT_PATHS = _paths("result output response data.result data.output results")
ERROR_MESSAGE_PATHS = _paths(
    """
    error.message error.detail error errors.0.message data.error.message data.error error_message
    errorMessage failure_reason reason message detail errors
    """
)
# Besides these, a failed job may have its reason here: Celery, rq and Prefect, for example.
FAILURE_REASON_PATHS = ERROR_MESSAGE_PATHS + _paths(
    "state.message exception result exc_info traceback description"
)
ERROR_CODE_PATHS = _paths("error.code errors.0.code data.error.code error_code errorCode")
PROGRESS_PATHS = _paths(
    """
    progress percent percentage percentComplete percent_complete data.progress progress.percent
    progress.percentage job.progress metadata.progressPercent
    """
)
CREATED_PATHS = _paths(
    """
    created_at createdAt created createdDateTime started_at startedAt started data.created_at
    """
)
FINISHED_PATHS = _paths(
    """
    finished_at finishedAt completed_at completedAt finished ended_at endedAt completedDateTime
    endTime end_time end_date data.finished_at data.completed_at
    """
)
# The id in the reply to a submission.
ID_PATHS = _paths(
    """
    id job_id jobId jobID task_id taskId task-id uuid request_id requestId data.id data.job_id
    data.jobId data.task_id data.taskId job.id task.id result.id
    """
)
BATCH_ITEMS_PATHS = _paths("items jobs data results tasks")

# A job whose status means 'done' has failed nevertheless if there is an error, if a success flag is
# false, or if a conclusion is one of the words for 'failed'.
ERROR_PATHS = _paths("error errorResult data.error status.errorResult")
SUCCESS_FLAG_PATHS = _paths("success ok data.success")
CONCLUSION_PATHS = _paths("conclusion data.conclusion outcome")
# These words mean that the job has stopped, successfully or not. Beside one of them, `result` may
# be the conclusion: Azure DevOps has "status": "completed" and "result": "failed".
STOPPED_WORDS = ("completed", "complete", "finished", "done", "ended")
