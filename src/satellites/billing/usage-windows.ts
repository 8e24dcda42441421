/** Closes windows of usage, each quota as often as it is configured: one at a time, and never in the way of the end of the process. */
import type { Logger } from '../../kernel/logger.ts'
import type { Settings } from './settings.ts'
import type { Usage } from './usage.ts'

export class UsageWindows {
  readonly #usage: Usage
  readonly #log: Logger
  readonly #timers: NodeJS.Timeout[] = []
  readonly #closing = new Set<Promise<void>>()

  constructor(usage: Usage, log: Logger) {
    this.#usage = usage
    this.#log = log
  }

  start(settings: Settings['usage']): void {
    for (const [flushMs, group] of Map.groupBy(Object.entries(settings), ([, { flushMs }]) => flushMs)) {
      const quotas = group.map(([quota]) => quota)
      let isClosing = false
      const close = async () => {
        if (isClosing) return
        isClosing = true
        await this.#close(quotas)
        isClosing = false
      }
      this.#timers.push(
        setInterval(() => {
          const closing = close().finally(() => this.#closing.delete(closing))
          this.#closing.add(closing)
        }, flushMs).unref(),
      )
    }
  }

  /** Resolves when what is being closed is. */
  async stop(): Promise<void> {
    for (const timer of this.#timers.splice(0)) clearInterval(timer)
    await Promise.all(this.#closing)
  }

  async #close(quotas: readonly string[]): Promise<void> {
    try {
      await this.#usage.closeAll(quotas)
    } catch (error) {
      this.#log.warn({ err: error }, 'usage could not be closed; it is in the next window')
    }
  }
}
