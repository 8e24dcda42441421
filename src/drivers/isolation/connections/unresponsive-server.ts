/**
 * Detects an unresponsive server while a client has been in use for long: two probes without a response. A server that
 * has never answered a probe may be behind a pooler that does not support them.
 */
import type { ProbeResult } from './server-probe.ts'

const PROBE_ATTEMPTS = 2

export class UnresponsiveServerCheck {
  readonly #probe: () => Promise<ProbeResult>
  #hasAnsweredProbe = false

  constructor(probe: () => Promise<ProbeResult>) {
    this.#probe = probe
  }

  async isUnresponsive(): Promise<boolean> {
    for (let attempt = 0; attempt < PROBE_ATTEMPTS; attempt++) {
      const result = await this.#probe()
      if (result === 'responded') this.#hasAnsweredProbe = true
      if (result !== 'timed out') return false
    }
    return this.#hasAnsweredProbe
  }
}
