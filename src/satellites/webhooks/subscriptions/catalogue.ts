/** Lists the events of Tenantry and those that the host has declared, with the JSON Schema of each body. */
import { z } from 'zod'
import type { Cursors, PageOf, PageOptions } from '../../../kernel/api/page.ts'
import { dottedName } from '../../../kernel/events/dotted-names.ts'
import type { Events } from '../../../kernel/events/events.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import { EventName } from '../model/event-names.ts'
import type { DeclaredEvents } from '../model/options.ts'

export const WebhookEvent = z.object({
  name: EventName,
  type: z.string().describe('Name of the event type in code; of a declared event of the host its name'),
  summary: z.string(),
  schema: z.record(z.string(), z.unknown()).describe('JSON Schema of the body'),
})
export type WebhookEvent = z.output<typeof WebhookEvent>

export class Catalogue {
  readonly #events: Events
  readonly #cursors: Cursors
  readonly #declared: DeclaredEvents
  #all: readonly WebhookEvent[] | undefined

  constructor({ events, cursors }: Pick<Kernel, 'events' | 'cursors'>, declared: DeclaredEvents = new Map()) {
    this.#declared = declared
    this.#events = events
    this.#cursors = cursors
  }

  page(page: PageOptions): Promise<PageOf<WebhookEvent>> {
    const order = { columns: ['name'], direction: 'asc' } as const
    return this.#cursors.keysetPage(
      ({ name: last = '' }) => this.list().filter(({ name }) => name > last),
      { name: 'webhookEvents', order, item: (event: WebhookEvent) => event },
      page,
    )
  }

  /** Sorted by name. */
  list(): readonly WebhookEvent[] {
    const ofTenantry = this.#events.types
      .filter(({ isInternal }) => !isInternal)
      .map(({ name, summary, schema }) => ({
        name: dottedName(name),
        type: name,
        summary,
        schema: z.toJSONSchema(schema) as Record<string, unknown>,
      }))
    const ofHost = [...this.#declared].map(([name, schema]) => ({
      name,
      type: name,
      summary: schema.description ?? 'Event of the host',
      schema: z.toJSONSchema(schema, { unrepresentable: 'any' }) as Record<string, unknown>,
    }))
    this.#all ??= [...ofTenantry, ...ofHost].toSorted((a, b) => (a.name < b.name ? -1 : 1))
    return this.#all
  }
}
