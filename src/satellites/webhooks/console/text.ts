/** Texts of the screens of webhooks. */
import { counted, formatNumber } from '../../../console/components/base/text.ts'
import { duration, seconds } from './statistics/text.ts'

export const text = {
  webhooks: 'Webhooks',
  hostWebhooks: 'Webhooks of the host',
  hostLead: 'These subscriptions receive events of all tenants.',
  deliveries: 'Deliveries',
  delivery: 'Delivery',
  subscription: 'Subscription',
  path: 'Position',
  ofHost: 'Host',
  actions: 'Actions',

  new: 'New subscription',
  create: 'Create subscription',
  edit: 'Edit',
  editTitle: 'Edit subscription',
  save: 'Save changes',
  saved: (url: string) => `Subscription ${url} saved`,
  created: (url: string) => `Subscription ${url} created`,
  url: 'URL',
  urlHint: 'Receives each event as a POST. https and a public address.',
  events: 'Events',
  eventsHint: 'One in each line: order.paid, order.* for all names below it, or * for all events.',
  addEvent: 'Add an event of Tenantry',
  choose: 'Choose…',
  description: 'Description',
  secret: 'Secret',
  secretHint: 'Signs the requests. Empty: a random one. It is shown once, after creation.',
  envelope: 'Send an envelope with type, id and time',
  enabled: 'Enabled',

  secretTitle: 'Secret of the subscription',
  secretOnce: 'Copy the secret now. It is not shown again. The receiver needs it to verify signatures.',
  secretMissing:
    'The service returned no secret, because an earlier call has created it. Rotate the secret to get one.',
  cancel: 'Cancel',

  tenantColumn: 'Failing webhooks',
  columns: {
    receiver: 'Receiver',
    events: 'Events',
    state: 'State',
    waiting: 'Waiting',
    lastDelivered: 'Last delivered',
    event: 'Event',
    tenant: 'Tenant',
    response: 'Response',
    attempts: 'Attempts',
    dispatched: 'Dispatched',
    created: 'Created',
  },
  empty: 'No subscriptions yet',
  emptyText: 'A subscription sends events of this tenant to a URL: signed, retried, with a record of each attempt.',
  emptyHostText: 'A subscription of the host sends events of all tenants to a URL of yours.',
  more: (count: number) => `+${formatNumber(count)}`,
  healthy: 'healthy',
  failing: 'failing',
  disabled: 'disabled',
  disabledReasons: {
    gone: 'The receiver responded with 410. The subscription is disabled.',
    failing: 'Deliveries failed for days. The subscription is disabled.',
    none: 'The subscription is disabled.',
  },
  disabledEffect: 'Events create no deliveries. After enabling it, replay failed and missing deliveries.',
  failingSince: 'Deliveries fail since',
  disabledAt: 'Disabled if failures continue',
  lastDeliveredAt: 'Last delivered',
  waiting: 'Waiting deliveries',
  createdAt: 'Created',
  updatedAt: 'Updated',
  id: 'Id',
  format: 'Body',
  formats: { envelope: 'Envelope', payload: 'Payload' },

  enable: 'Enable',
  disable: 'Disable',
  enabledDone: (url: string) => `Subscription ${url} enabled`,
  disabledDone: (url: string) => `Subscription ${url} disabled`,
  test: 'Send a test',
  testText: 'Sends a test event to this subscription only, regardless of its events.',
  testEvent: 'Event',
  testEventHint: 'Empty: webhook.test',
  testSent: 'Test event dispatched',
  rotate: 'Rotate secret',
  rotateText: 'The subscription gets a new secret, which is shown once. This cannot be undone.',
  grace: 'Former secret signs for (seconds)',
  graceHint: 'Both secrets sign until then. 0: the former secret ends immediately.',
  rotated: 'Secret rotated',
  delete: 'Delete',
  deleteTitle: 'Delete subscription?',
  deleteText: (url: string) =>
    `Events are no longer sent to ${url}. Waiting deliveries fail without an attempt. This cannot be undone.`,
  deleted: (url: string) => `Subscription ${url} deleted`,

  sendEvent: 'Send an event',
  sendEventText: 'Dispatches an event of this tenant to all subscriptions that match its name.',
  event: 'Event',
  payload: 'Payload',
  payloadHint: 'A JSON object: the body of the requests.',
  dispatch: 'Dispatch event',
  dispatched: (count: number) =>
    count === 0 ? 'No subscription matches the event' : `Event dispatched: ${counted(count, 'delivery', 'deliveries')}`,

  replay: 'Replay',
  replayTitle: 'Replay the delivery?',
  replayText: (event: string) =>
    `Sends ${event} again under the same id, with a new budget of attempts. Receivers ignore ids that they have accepted.`,
  replayed: (event: string) => `${event} is sent again`,
  replayFailed: 'Replay failed',
  replayFailedText: 'Sends failed deliveries again that were dispatched in this time.',
  replayAllFailed: 'Replay all failed',
  replayAllFailedText: 'Sends failed deliveries of all enabled subscriptions again that were dispatched in this time.',
  replayMissing: 'Replay missing',
  replayMissingText:
    'Sends events that match and have no delivery: dispatched before the subscription existed, or while it was disabled.',
  from: 'From',
  to: 'To',
  counting: 'Counting…',
  count: (count: number) => counted(count, 'delivery', 'deliveries'),
  countOf: (count: number) =>
    count === 0 ? 'No delivery in this time.' : `${counted(count, 'delivery', 'deliveries')} in this time.`,
  replayCount: (count: number) => `Replay ${counted(count, 'delivery', 'deliveries')}`,
  replaysDone: (count: number) => `${counted(count, 'delivery is', 'deliveries are')} sent again`,

  states: {
    pending: 'Pending',
    delivering: 'Sending',
    retry_scheduled: 'Retry scheduled',
    delivered: 'Delivered',
    failed: 'Failed',
  },
  all: 'All',
  stateFilter: 'Filter by state',
  statusFilter: 'Response',
  anyStatus: 'Any response',
  noResponse: 'No response',
  statusClass: (first: string) => `${first}xx`,
  eventFilter: 'Event',
  tenantFilter: 'Tenant id',
  sameAs: (id: string) => `Same response as ${id.slice(-12)}`,
  remove: (name: string) => `Remove the filter: ${name}`,
  clear: 'Clear filters',
  shown: (count: number, hasMore: boolean) =>
    `${hasMore ? 'At least ' : ''}${counted(count, 'delivery', 'deliveries')}`,
  noDeliveries: 'No deliveries yet',
  noDeliveriesText: 'Each event that matches a subscription creates a delivery.',
  noMatch: 'No delivery matches',
  noMatchText: 'Remove a filter, or choose a longer time.',

  statistics: 'Statistics',
  ms: duration,

  sameFailure: 'Same failure',
  nextRetry: 'Next attempt',
  deliveredAt: 'Delivered',
  dispatchedAt: 'Dispatched',
  schedule: 'Schedule',
  scheduleText: 'Planned and actual attempts since the dispatch or the last replay. The scale is logarithmic.',
  planned: 'Planned',
  actual: 'Actual',
  attempts: 'Attempts',
  attempt: 'Attempt',
  attemptOf: (number: number) => `Attempt ${formatNumber(number)}`,
  noAttempts: 'There is no attempt yet.',
  started: 'Started',
  duration: 'Duration',
  /** Start against the plan. */
  late: (ms: number) => {
    const sign = ms < 0 ? '−' : '+'
    const abs = Math.abs(ms)
    if (abs < 100) return 'on time'
    return abs < 120_000 ? `${sign}${seconds(abs)} s` : `${sign}${formatNumber(Math.round(abs / 60_000))} min`
  },
  since: (ms: number) =>
    ms < 1_000
      ? '0 s'
      : ms < 120_000
        ? `${Math.round(ms / 1_000)} s`
        : ms < 7_200_000
          ? `${Math.round(ms / 60_000)} min`
          : `${Math.round(ms / 3_600_000)} h`,
  address: 'Address',
  error: 'Error',
  response: 'Response',
  responseBody: 'Response body',
  responseHeaders: 'Response headers',
  requestHeaders: 'Request headers',
  emptyBody: 'The response has no body.',
  difference: (n: number, former: number) => `Attempt ${n} against ${former}`,
  sameAttempt: 'Same status, error, address and response as the attempt before.',
  lastSuccess: 'Against the last success of this event',
  noSuccess: 'No delivery of this event to this subscription was successful yet.',

  cardTitle: 'Webhooks',
  failingCount: (count: number) => `${counted(count, 'subscription')} failing or disabled`,
  oldestFailure: 'Oldest failure of the shown deliveries:',
  notRestored:
    'Secrets are not in the audit log. A deleted subscription is created again with another id and another secret; its deliveries stay with the former one.',
  subscriptions: (count: number) => counted(count, 'subscription'),
  noSubscriptions: 'This tenant has no subscriptions.',
}
