/**
 * Whether a server has gone silent, asked while somebody has been waiting for it for long. It takes two probes without a response.
 * A server that has never answered a probe may be behind a pooler that does not support them.
 */
import type { ProbeResult } from './server-probe.ts'

const PROBE_ATTEMPTS = 2

export class Silence {
  readonly #probe: () => Promise<ProbeResult>
  #hasAnsweredProbe = false

  constructor(probe: () => Promise<ProbeResult>) {
    this.#probe = probe
  }

  async hasCome(): Promise<boolean> {
    for (let attempt = 0; attempt < PROBE_ATTEMPTS; attempt++) {
      const result = await this.#probe()
      if (result === 'answered') this.#hasAnsweredProbe = true
      if (result !== 'silent') return false
    }
    return this.#hasAnsweredProbe
  }
}
