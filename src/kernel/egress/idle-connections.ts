/**
 * Connections that wait for their next exchange. The one that was used last is taken first, so that those beyond what is needed
 * stay idle until they are closed; when there are too many in all, the one that has waited longest goes. An origin is known
 * here for as long as it has a connection.
 */
import type { Lane } from './connection.ts'

const MAX_IDLE = 1_000

export class IdleLanes {
  readonly #byOrigin = new Map<string, Lane[]>()
  /** In the order in which they came. */
  readonly #all = new Set<Lane>()

  get size(): number {
    return this.#all.size
  }

  /** @returns the one that there is no room for any more. */
  add(lane: Lane): Lane | undefined {
    const lanes = this.#byOrigin.get(lane.origin)
    if (lanes) lanes.push(lane)
    else this.#byOrigin.set(lane.origin, [lane])
    this.#all.add(lane)
    const [oldest] = this.#all.size > MAX_IDLE ? this.#all : []
    if (oldest) this.remove(oldest)
    return oldest
  }

  take(origin: string): Lane | undefined {
    const lanes = this.#byOrigin.get(origin)
    const lane = lanes?.pop()
    if (!lane) return undefined
    this.#all.delete(lane)
    if (lanes?.length === 0) this.#byOrigin.delete(origin)
    return lane
  }

  /** Whether it was here. */
  remove(lane: Lane): boolean {
    if (!this.#all.delete(lane)) return false
    const lanes = this.#byOrigin.get(lane.origin) ?? []
    lanes.splice(lanes.indexOf(lane), 1)
    if (lanes.length === 0) this.#byOrigin.delete(lane.origin)
    return true
  }
}
