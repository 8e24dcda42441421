/** Texts of System. */
import { counted, formatNumber } from '../../components/base/text.ts'

const UNITS = [
  [86_400, 'd'],
  [3_600, 'h'],
  [60, 'min'],
  [1, 's'],
] as const

export const text = {
  system: 'System',
  health: 'Health',
  version: 'Version',
  uptime: 'Uptime',
  duration: (seconds: number): string => {
    const [size, name] = UNITS.find(([size]) => seconds >= size) ?? [1, 's']
    return `${Math.floor(seconds / size)} ${name}`
  },
  checks: 'Checks',
  check: 'Check',
  state: 'State',
  time: 'Duration',
  message: 'Message',
  findings: 'Findings of the doctor',
  noFindings: 'The doctor found no problems.',
  runDoctor: 'Run the doctor',
  doctorText: 'The doctor looks for inconsistencies and misconfiguration, each with its remedy.',
  queues: 'Queues',
  queue: 'Queue',
  noQueues: 'No queue has jobs.',
  tenant: 'Tenant',
  waiting: 'Waiting',
  active: 'Active',
  delayed: 'Delayed',
  failed: 'Failed',
  completed: 'Completed',
  deadLetters: 'Dead letters',
  deadLetter: 'Dead letter',
  noDeadLetters: 'No job has failed permanently.',
  error: 'Error',
  reason: 'Reason',
  reasons: { failed: 'All attempts failed', orphaned: 'No process handles this job' },
  attempts: 'Attempts',
  created: 'Created',
  retry: 'Retry',
  retried: 'The job is queued again',
  delete: 'Delete',
  deleted: 'The dead letter is deleted',
  deleteTitle: (queue: string) => `Delete this dead letter of ${queue}?`,
  deleteText: 'Its job is not carried out. This cannot be undone.',
  outbox: 'Failed outbox entries',
  noOutbox: 'No outbox entry has failed.',
  kind: 'Kind',
  failedAt: 'Failed',
  retryAll: 'Retry all',
  outboxRetried: (applied: number, failed: number) =>
    `${counted(applied, 'entry', 'entries')} applied${failed > 0 ? `, ${formatNumber(failed)} failed again` : ''}`,
  placements: 'Placements',
  placement: 'Placement',
  tenants: 'Tenants',
  connections: 'Connections of this process',
  connectionsOf: ({ used, allowed, waiting }: { used: number; allowed: number | null; waiting: number }) =>
    `${formatNumber(used)}${allowed === null ? '' : ` of ${formatNumber(allowed)}`}${waiting > 0 ? `, ${formatNumber(waiting)} waiting` : ''}`,
  circuit: 'Circuit',
  circuits: { CLOSED: 'closed', HALF_OPEN: 'half open', OPEN: 'open' },
  configured: 'configured',
  notConfigured: 'not configured',
  lost: 'lost',
  driversOf: (drivers: readonly { readonly name: string; readonly tenants: number; readonly isDefault: boolean }[]) =>
    `Isolation drivers: ${drivers
      .map(({ name, tenants, isDefault }) => `${name} (${counted(tenants, 'tenant')}${isDefault ? ', default' : ''})`)
      .join(', ')}`,
  processes: 'Processes',
  process: 'Process',
  thisProcess: 'this process',
  live: 'live',
  ended: 'ended',
  role: 'Role',
  started: 'Started',
  heartbeat: 'Last heartbeat',
  differences: 'Differing settings',
}
