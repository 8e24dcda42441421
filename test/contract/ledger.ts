/** What was seen while the cases ran: answers by operation, and events. */
import type { EventType } from '../../src/kernel/events.ts'
import type { Tenancy } from '../../src/tenancy.ts'
import type { Answer } from './calls.ts'
import { type Described, described } from './document.ts'

const answers = new Map<string, Set<string>>(described.map(({ name }) => [name, new Set()]))
const events = new Set<string>()

export const ledger = {
  events,
  note({ name }: Described, ...seen: readonly string[]): void {
    for (const one of seen) answers.get(name)?.add(one)
  },
  noteAnswer(operation: Described, { status, json }: Answer): void {
    ledger.note(operation, String(status), ...(typeof json?.code === 'string' ? [json.code] : []))
  },
  listen({ on }: Tenancy, types: readonly EventType[]): void {
    for (const type of types) on(type, () => void events.add(type.name))
  },
  /** What the document promises of an operation and nobody saw. */
  unseen(operation: Described): string[] {
    const promised = [...operation.answers].flatMap(([status, codes]) => [String(status), ...codes])
    return promised.filter((one) => !answers.get(operation.name)?.has(one))
  },
}
