/** Texts of bulk jobs. */
import type { Body } from '../../../console/api/contract.ts'
import { counted, formatNumber } from '../../../console/components/base/text.ts'

type OperationOfBulk = NonNullable<Body<'bulk.start'>>['operation']

interface Numbers {
  readonly total: number
  readonly done: number
  readonly unchanged: number
  readonly failed: number
}

const destructive: readonly OperationOfBulk[] = ['tenants.suspend', 'tenants.delete']
const operations: Readonly<Record<OperationOfBulk, string>> = {
  'tenants.suspend': 'Suspend',
  'tenants.activate': 'Activate',
  'tenants.enterMaintenance': 'Start maintenance',
  'tenants.exitMaintenance': 'End maintenance',
  'tenants.setPlan': 'Set plan',
  'tenants.restore': 'Restore',
  'tenants.delete': 'Delete',
}
const effects: Readonly<Record<OperationOfBulk, string>> = {
  'tenants.suspend': 'All requests of their users are rejected with 403 until the tenants are activated. Data is kept.',
  'tenants.activate': 'Requests of their users are admitted again.',
  'tenants.enterMaintenance': 'Users receive a 503 until the maintenance ends. Data stays as it is.',
  'tenants.exitMaintenance': 'Requests of their users are admitted again.',
  'tenants.setPlan': 'The limits of the plan apply immediately.',
  'tenants.restore': 'They have their former status and data again.',
  'tenants.delete':
    'Requests of their users are rejected. The data is kept until the end of the retention period, and can be restored until then.',
}

export const bulkText = {
  operations,
  effects,
  destructive,
  toolbar: 'Selected tenants',
  selected: (count: number) => `${formatNumber(count)} selected`,
  allSelected: 'All that match the filter',
  selectAll: 'Select all that match',
  clear: 'Clear',
  title: (operation: string) => `${operation}: selected tenants`,
  plan: 'Plan',
  choosePlan: 'Choose a plan',
  predicting: 'Predicting the results…',
  prediction: ({ total, done, unchanged, failed }: Numbers) =>
    `${[
      `${counted(total, 'tenant')}: ${formatNumber(done)} will change`,
      ...(unchanged > 0 ? [`${formatNumber(unchanged)} will stay as they are`] : []),
      ...(failed > 0 ? [`${formatNumber(failed)} cannot change`] : []),
    ].join(', ')}.`,
  job: 'Bulk job',
  progress: (done: number, total: number) => `${formatNumber(done)} of ${counted(total, 'tenant')}`,
  operation: 'Operation',
  startedBy: 'Started by',
  started: 'Started',
  states: { done: 'Changed', unchanged: 'Unchanged', skipped: 'Skipped', failed: 'Failed' },
  failures: 'Failed tenants',
  cancel: 'Cancel the job',
  cancelled: 'The bulk job is cancelled',
  more: 'Load more',
}
