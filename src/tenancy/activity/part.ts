/** The stream of changes as a part of a tenancy. */
import type { AnyOperation } from '../../kernel/api/operation.ts'
import { ChangeRecorded } from '../../kernel/events/changes.ts'
import { on } from '../../kernel/events/events.ts'
import type { Part } from '../../kernel/part-definition.ts'
import { Activity } from './activity.ts'
import { commands, operations } from './operations.ts'

interface Dependencies {
  readonly configuration: { readonly operations: readonly AnyOperation[] }
}

export const activityPart: Part<'activity', Activity, Dependencies> = {
  name: 'activity',
  service: (kernel, { configuration }) => new Activity(kernel, configuration.operations),
  start: (activity) => activity.start(),
  listeners: [
    on(ChangeRecorded, 'within', (activity: Activity, change) => activity.record(change), { isPassive: true }),
  ],
  operations,
  commands,
  stop: (activity) => activity.stop(),
}
