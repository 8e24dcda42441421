/** Lists the events of Tenantry with the JSON Schema of each body. Hosts dispatch others under their own names. */
import { z } from 'zod'
import type { Cursors, PageOf } from '../../../kernel/api/page.ts'
import type { Events } from '../../../kernel/events/events.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import { dottedName, EventName } from '../model/event-names.ts'
import type { PageOptions } from './subscriptions.ts'

const LIST = 'webhookEvents'

export const WebhookEvent = z.object({
  name: EventName,
  type: z.string().describe('Name of the event type in code'),
  summary: z.string(),
  schema: z.record(z.string(), z.unknown()).describe('JSON Schema of the body'),
})
export type WebhookEvent = z.output<typeof WebhookEvent>

export class Catalogue {
  readonly #events: Events
  readonly #cursors: Cursors
  #all: readonly WebhookEvent[] | undefined

  constructor({ events, cursors }: Pick<Kernel, 'events' | 'cursors'>) {
    this.#events = events
    this.#cursors = cursors
  }

  page({ limit, cursor }: PageOptions): PageOf<WebhookEvent> {
    const [after = ''] = this.#cursors.decode(LIST, cursor) ?? []
    const rest = this.list().filter(({ name }) => name > after)
    return this.#cursors.page(
      LIST,
      rest,
      limit,
      (event) => event,
      ({ name }) => [name],
    )
  }

  /** Sorted by name. */
  list(): readonly WebhookEvent[] {
    this.#all ??= this.#events.types
      .filter(({ isInternal }) => !isInternal)
      .map(({ name, summary, schema }) => ({
        name: dottedName(name),
        type: name,
        summary,
        schema: z.toJSONSchema(schema) as Record<string, unknown>,
      }))
      .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    return this.#all
  }
}
