/** Stops what was started, the last first. A failure is logged and does not keep the others from being stopped. */
import type { Logger } from './logger.ts'

export async function stopAll(stops: readonly (() => unknown)[], log: Logger): Promise<void> {
  for (const stop of stops.toReversed()) {
    try {
      await stop()
    } catch (error) {
      log.error({ err: error }, 'a part could not be stopped')
    }
  }
}
