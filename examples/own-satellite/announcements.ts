/**
 * A custom satellite: announcements, which an administrator publishes to all users of one tenant.
 *
 * A satellite is one object: its name, tables, events, a service, and the interfaces to that service. Members are plain
 * data or functions whose first argument is the service; all are optional. With `createTenancy`, its operations are in
 * the admin API and in openapi.json, its changes are in the audit log, and `tenancy.announcements` is the typed
 * service.
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
 * Migrations of the schema `multitenancy` in the backoffice database. They run in this order, each once: never edit a
 * released migration, add another one. Tables with rows of tenants have a column `tenant_id`.
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

/** Types of the tables. SQL's snake_case is camelCase here. */
interface Tables {
  announcements: { id: string; tenantId: string; title: string; body: string; publishedAt: Date }
}

const NewAnnouncement = z.strictObject({ title: z.string().trim().min(1).max(200), body: z.string().max(10_000) })

/** Responses contain only the members of their schema, so a column that is not named here is never returned. */
const Announcement = NewAnnouncement.extend({
  id: z.uuid(),
  tenantId: z.string(),
  publishedAt: z.iso.datetime(),
}).meta({ id: 'Announcement' })
type Announcement = z.output<typeof Announcement>

/** An event is a value. Tenantry adds `id`, `occurredAt` and `requestId` to the declared members. */
export const AnnouncementPublished = event(
  'AnnouncementPublished',
  'An announcement was published to the users of a tenant',
  z.object({ tenantId: z.string(), announcementId: z.uuid(), title: z.string() }),
)

/** The service, which all callers share. Created once, from the kernel; independent of HTTP. */
export class Announcements {
  readonly #kernel: Kernel

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  /** Commits the row, its audit entry and its event together: calls inside a transaction join it. */
  async publish(tenantId: string, { title, body }: z.output<typeof NewAnnouncement>): Promise<Announcement> {
    const { database, events, clock } = this.#kernel
    return database.transaction(async () => {
      await lockTenant(database, tenantId) // blocks the deletion of the tenant until the transaction ends, so its purge leaves no row behind
      const row = { id: uuidv7(), tenantId, title, body, publishedAt: clock.now() }
      await database.query<Tables>().insertInto('announcements').values(row).execute()
      const target = `announcement:${row.id}`
      await recordChange(events, { action: 'announcements.publish', tenantId, target, after: { title } })
      await events.publish(AnnouncementPublished, { tenantId, announcementId: row.id, title })
      return toAnnouncement(row)
    })
  }

  /** Newest first. The cursor is the sort key of the last row, so that all pages cost the same. */
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
 * An operation is one endpoint of the admin API: validated in both directions, and described in openapi.json. With `command` it also has a
 * command: `announcements:publish acme --title "We are moving"`.
 */
const operations = [
  operation({
    name: 'announcements.publish',
    method: 'POST',
    path: '/tenants/{id}/announcements',
    summary: 'Publish an announcement to the users of a tenant',
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
    summary: 'List the announcements of a tenant, newest first',
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
    summary: 'Announcements to the users of a tenant',
    tables,
    tenantTables: ['announcements'], // a purge deletes the tenant's rows
    events: [AnnouncementPublished],
    service: (kernel) => new Announcements(kernel),
    operations,
  })
