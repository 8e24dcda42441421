/** Records the responses of each operation and the published events of one runner. */
import type { EventType } from '../../src/kernel/events/events.ts'
import type { Tenancy } from '../../src/tenancy/tenancy.ts'
import type { HttpResponse } from './calls.ts'
import type { Described } from './document.ts'

export class CoverageRecord {
  readonly events = new Set<string>()
  readonly #seen = new Map<string, Set<string>>()

  noteResponse({ name }: Described, { status, json }: HttpResponse): void {
    const seen = this.#seen.get(name) ?? new Set()
    this.#seen.set(name, seen.add(String(status)))
    if (typeof json?.code === 'string') seen.add(json.code)
  }

  listen({ on }: Tenancy, types: readonly EventType[]): void {
    for (const type of types) on(type, () => void this.events.add(type.name))
  }

  /** Statuses and codes that openapi.json has for an operation, and that have not occurred. */
  unseen({ name, responses }: Described): string[] {
    const promised = [...responses].flatMap(([status, codes]) => [String(status), ...codes])
    return promised.filter((one) => !this.#seen.get(name)?.has(one))
  }
}
