/** Retries, times and retention of the queue of a job type. */
import type { JobType } from '../../kernel/jobs/jobs.ts'

const COMPLETED_KEPT_SECONDS = 3_600
export const WAITING_KEPT_SECONDS = 365 * 86_400
const HEARTBEAT_SECONDS = 15

export function queueOptions({
  retries = 3,
  retryDelaySeconds = 1,
  retryDelayMaxSeconds = 86_400,
  timeoutSeconds = 900,
}: JobType) {
  return {
    retryLimit: retries,
    retryDelay: retryDelaySeconds,
    retryBackoff: true,
    retryDelayMax: retryDelayMaxSeconds,
    expireInSeconds: timeoutSeconds,
    heartbeatSeconds: HEARTBEAT_SECONDS,
    retentionSeconds: WAITING_KEPT_SECONDS,
    deleteAfterSeconds: COMPLETED_KEPT_SECONDS,
  }
}
