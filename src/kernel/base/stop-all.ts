/** Stops started parts in reverse order. A failure is logged, and the other parts are stopped. */
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
