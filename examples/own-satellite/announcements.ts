/**
 * A satellite of your own: announcements, which an admin makes to all users of one tenant.
 *
 * A satellite is one object: a name, what it owns (tables), what it says (events), what it can do (a service), and every way
 * to reach that service. All of it is plain data, or a function whose first argument is the service; leave out what you do not
 * need. Once it is given to `createTenancy`, its operations are in the admin API and in openapi.json, its changes are in the
 * audit log, and `tenancy.announcements` is the service, typed.
 */
import {
  assertTenantExists,
  defineSatellite,
  event,
  type Kernel,
  lockTenant,
  type Migration,
  Page,
  type PageOf,
  pageOf,
  part,
  recordChange,
  TenantId,
  TenantNotFound,
  TenantState,
  uuidv7,
} from 'tenantry'
import { z } from 'zod'

/**
 * Tables are made in the backoffice database's schema `multitenancy`, in this order, each once: never edit one that has run,
 * add another. A row that belongs to a tenant says so in `tenant_id`.
 */
const tables: readonly Migration[] = [
  {
    name: '0001_announcements',
    up: `
      create table announcements (
        id uuid primary key,
        tenant_id text not null references tenants,
        title text not null,
        body text not null,
        published_at timestamptz(3) not null
      );
      create index announcements_page on announcements (tenant_id, published_at desc, id desc);
    `,
  },
]

/** What code may rely on of those tables: SQL's snake_case is camelCase here. */
interface Tables {
  announcements: { id: string; tenantId: string; title: string; body: string; publishedAt: Date }
}

const NewAnnouncement = z.strictObject({ title: z.string().trim().min(1).max(200), body: z.string().max(10_000) })

/** What leaves the house is what a schema names: a column that is not here is in no answer. */
const Announcement = NewAnnouncement.extend({
  id: z.uuid(),
  tenantId: z.string(),
  publishedAt: z.iso.datetime(),
}).meta({ id: 'Announcement' })
type Announcement = z.output<typeof Announcement>

/** An event is a value. `id`, `occurredAt` and `requestId` are added to what is declared here. */
export const AnnouncementPublished = event(
  'AnnouncementPublished',
  'An announcement was made to the users of a tenant',
  z.object({ tenantId: z.string(), announcementId: z.uuid(), title: z.string() }),
)

/** The service: what the satellite can do, whoever asks. It is made once, from the kernel, and knows nothing of HTTP. */
export class Announcements {
  readonly #kernel: Kernel

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  /** The row, its audit entry and its event stand or fall together: whatever is called in a transaction joins it. */
  async publish(tenantId: string, { title, body }: z.output<typeof NewAnnouncement>): Promise<Announcement> {
    const { database, events, clock } = this.#kernel
    return database.transaction(async () => {
      await lockTenant(database, tenantId) // it cannot be deleted before this ends, so its purge leaves no row behind
      const row = { id: uuidv7(), tenantId, title, body, publishedAt: clock.now() }
      await database.query<Tables>().insertInto('announcements').values(row).execute()
      const target = `announcement:${row.id}`
      await recordChange(events, { action: 'announcements.publish', tenantId, target, after: { title } })
      await events.publish(AnnouncementPublished, { tenantId, announcementId: row.id, title })
      return toAnnouncement(row)
    })
  }

  /** The newest first. A page ends with the sort key of its last row, so that no page costs more than the first. */
  async list(tenantId: string, page: z.output<typeof Page>): Promise<PageOf<Announcement>> {
    const { database, cursors } = this.#kernel
    await assertTenantExists(database, tenantId)
    const query = database.query<Tables>().selectFrom('announcements').selectAll().where('tenantId', '=', tenantId)
    const order = { columns: ['publishedAt', 'id'], direction: 'desc' } as const
    return cursors.keysetPage(query, { name: 'announcements', filters: [tenantId], order, item: toAnnouncement }, page)
  }
}

const toAnnouncement = ({ publishedAt, ...row }: Tables['announcements']): Announcement => ({
  ...row,
  publishedAt: publishedAt.toISOString(),
})

const { operation } = part<Announcements>()

/**
 * An operation is one request of the admin API: checked on its way in and out, described in openapi.json, by one name. With `command`
 * it is a command, too: `announcements:publish acme --title "We are moving"`.
 */
const operations = [
  operation({
    name: 'announcements.publish',
    method: 'POST',
    path: '/tenants/{id}/announcements',
    summary: "Make an announcement to a tenant's users",
    params: z.object({ id: TenantId }),
    body: NewAnnouncement,
    reply: Announcement,
    status: 201,
    errors: [TenantNotFound, TenantState],
    command: {
      name: 'announcements:publish',
      arguments: { id: 'id of the tenant' },
      options: {
        title: { flags: '--title <text>', summary: 'one line' },
        body: { flags: '--body <text>', summary: 'what there is to say', required: false, default: '' },
      },
    },
    handle: (announcements, { params, body }) => announcements.publish(params.id, body),
  }),
  operation({
    name: 'announcements.list',
    method: 'GET',
    path: '/tenants/{id}/announcements',
    summary: "List a tenant's announcements, the newest first",
    params: z.object({ id: TenantId }),
    query: z.strictObject(Page.shape),
    reply: pageOf(Announcement),
    errors: [TenantNotFound],
    handle: (announcements, { params, query }) => announcements.list(params.id, query),
  }),
]

export const announcements = () =>
  defineSatellite({
    name: 'announcements',
    summary: 'What the users of a tenant are told',
    tables,
    tenantTables: ['announcements'], // a purge deletes the tenant's rows
    events: [AnnouncementPublished],
    service: (kernel) => new Announcements(kernel),
    operations,
  })
