/** The sample tenants of the demo, as calls of the admin API. Calls of operations that the service does not have are skipped. */

export interface SampleCall {
  readonly operation: string
  /** In addition to `id`, the tenant. */
  readonly params?: Readonly<Record<string, string>>
  readonly body?: unknown
}

export interface SampleTenant {
  readonly id: string
  readonly name: string
  readonly plan: string
  readonly domains?: readonly string[]
  readonly metadata?: Readonly<Record<string, unknown>>
  readonly calls: readonly SampleCall[]
  /** The last call: it may end the tenant's availability. */
  readonly end?: SampleCall
}

/** Limits of plans that have none in the configuration. */
export const SAMPLE_LIMITS: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  free: { users: 5, api_calls: 1_000 },
  pro: { users: 50, api_calls: 100_000 },
  enterprise: { users: 1_000, api_calls: 10_000_000 },
}

/** Status codes of the demo's receiver: success, temporary failure, permanent failure. */
export const RECEIVER_STATUSES = [200, 503, 410] as const
type ReceiverStatus = (typeof RECEIVER_STATUSES)[number]

const flag = (key: string, rolloutPercent: number | null, enabled = true): SampleCall => ({
  operation: 'featureFlags.set',
  params: { key },
  body: { enabled, rolloutPercent },
})

const usage = (quota: string, value: number): SampleCall => ({ operation: 'quotas.setUsage', body: { quota, value } })

const event = (name: string, payload: object): SampleCall => ({
  operation: 'webhooks.dispatch',
  body: { event: name, payload },
})

const invoice = (number: string, amount: number): SampleCall =>
  event('invoice.paid', { number, amount, currency: 'EUR' })

const branding = (displayName: string, primaryColor: string, supportEmail: string): SampleCall => ({
  operation: 'branding.update',
  body: { displayName, primaryColor, supportEmail },
})

/** @param receiver the URL of the demo's receiver for a status code */
export function sampleTenants(receiver: (status: ReceiverStatus) => string): readonly SampleTenant[] {
  const webhook = (status: ReceiverStatus, ...events: string[]): SampleCall => ({
    operation: 'webhooks.create',
    body: { url: receiver(status), events },
  })
  return [
    {
      id: 'globex',
      name: 'Globex Corporation',
      plan: 'enterprise',
      domains: ['app.globex.example'],
      metadata: { customer: 'C-1001', owner: 'hank@globex.example' },
      calls: [
        branding('Globex', '#0f766e', 'help@globex.example'),
        flag('new-editor', 25),
        flag('audit-export', null),
        usage('users', 412),
        usage('api_calls', 8_600_000),
        webhook(200, 'invoice.paid', 'user.invited'),
        invoice('2026-0041', 129_000),
        invoice('2026-0042', 4_900),
        event('user.invited', { email: 'lisa@globex.example' }),
        { operation: 'backups.create', body: { note: 'Before the new editor' } },
        {
          operation: 'tenants.clone',
          body: { id: 'globex-staging', name: 'Globex Corporation (staging)', metadata: { plan: 'free' } },
        },
        { operation: 'tenants.update', body: { name: 'Globex' } },
      ],
    },
    {
      id: 'initech',
      name: 'Initech',
      plan: 'pro',
      domains: ['initech.example', 'tps.initech.example'],
      metadata: { customer: 'C-1002', owner: 'bill@initech.example' },
      calls: [
        flag('new-editor', 50),
        usage('users', 44),
        usage('api_calls', 91_500),
        webhook(503, 'report.*'),
        webhook(200, 'invoice.paid'),
        event('report.created', { title: 'TPS report', pages: 3 }),
        event('report.updated', { title: 'TPS report', pages: 4 }),
        invoice('2026-0043', 9_900),
      ],
    },
    {
      id: 'hooli',
      name: 'Hooli',
      plan: 'enterprise',
      metadata: { customer: 'C-1003', owner: 'gavin@hooli.example' },
      calls: [
        branding('Hooli', '#1d4ed8', 'support@hooli.example'),
        flag('new-editor', null),
        flag('beta-search', 10),
        usage('users', 871),
        usage('api_calls', 4_100_000),
        webhook(200, '*'),
        event('user.invited', { email: 'richard@hooli.example' }),
        {
          operation: 'impersonations.start',
          body: { userId: 'user-42', reason: 'Ticket 4711: the export is empty', durationSeconds: 60 },
        },
      ],
    },
    {
      id: 'umbrella',
      name: 'Umbrella Logistics',
      plan: 'pro',
      metadata: { customer: 'C-1004' },
      calls: [
        usage('users', 12),
        usage('api_calls', 100_000),
        webhook(410, 'shipment.*'),
        event('shipment.sent', { number: 'S-7', items: 12 }),
        event('shipment.lost', { number: 'S-8', items: 1 }),
      ],
    },
    {
      id: 'stark',
      name: 'Stark Industries',
      plan: 'enterprise',
      metadata: { customer: 'C-1005' },
      calls: [
        flag('new-editor', 5),
        usage('users', 96),
        { operation: 'tenants.move', body: { isolation: 'rowscope-pg' } },
      ],
    },
    {
      id: 'wayne',
      name: 'Wayne Enterprises',
      plan: 'free',
      metadata: { customer: 'C-1006' },
      calls: [usage('users', 4), { operation: 'tenants.setPlan', params: { plan: 'pro' } }, usage('api_calls', 12_400)],
    },
    {
      id: 'wonka',
      name: 'Wonka Confectionery',
      plan: 'free',
      metadata: { customer: 'C-1007' },
      calls: [usage('users', 5), usage('api_calls', 870)],
      end: {
        operation: 'tenants.enterMaintenance',
        body: { message: 'The import of the recipes is running', retryAfterSeconds: 600 },
      },
    },
    {
      id: 'soylent',
      name: 'Soylent Foods',
      plan: 'free',
      metadata: { customer: 'C-1008' },
      calls: [usage('users', 2), flag('beta-search', null, false)],
      end: { operation: 'tenants.suspend' },
    },
    {
      id: 'vandelay',
      name: 'Vandelay Industries',
      plan: 'free',
      metadata: { customer: 'C-1009' },
      calls: [],
      end: { operation: 'tenants.delete' },
    },
    {
      id: 'sirius',
      name: 'Sirius Cybernetics Corporation, Department of Complaints, Genuine People Personalities and Interplanetary Deliveries (Holding)',
      plan: 'pro',
      domains: ['complaints.interplanetary-deliveries.sirius-cybernetics.example'],
      metadata: { customer: 'C-1010' },
      calls: [usage('users', 41), flag('a-flag-with-a-name-that-is-longer-than-most-columns-of-a-table', 33)],
    },
    {
      id: 'ofoq',
      name: 'شركة الأفق للتجارة الدولية',
      plan: 'pro',
      metadata: { customer: 'C-1011', locale: 'ar' },
      calls: [
        usage('users', 23),
        flag('right-to-left', null),
        webhook(200, 'invoice.paid'),
        invoice('2026-0044', 19_900),
      ],
    },
    { id: 'acme-labs', name: 'Acme Labs', plan: 'free', calls: [] },
  ]
}
