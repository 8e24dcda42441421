/**
 * Whether a server has gone silent, asked while somebody has been waiting for it for long. It takes two knocks without an answer; and
 * one that has never answered any may be behind somebody who does not know what they are.
 */
import type { Answer } from './server-probe.ts'

const KNOCKS = 2

export class Silence {
  readonly #knock: () => Promise<Answer>
  #knowsKnocks = false

  constructor(knock: () => Promise<Answer>) {
    this.#knock = knock
  }

  async hasCome(): Promise<boolean> {
    for (let knock = 0; knock < KNOCKS; knock++) {
      const answer = await this.#knock()
      if (answer === 'answered') this.#knowsKnocks = true
      if (answer !== 'silent') return false
    }
    return this.#knowsKnocks
  }
}
