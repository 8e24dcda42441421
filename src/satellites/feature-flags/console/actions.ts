/** Actions on a flag. */
import { runAction } from '../../../console/data/queries.ts'
import type { Action } from '../../../console/module.ts'
import { type Edits, type Flag, isAbsent } from './model.ts'
import { text } from './text.ts'

const inputOf = ({ tenantId: id, key }: Flag) => ({ params: { id, key } })

/** Changes members of a flag, or creates an absent one. The toast reverts it. */
export const editFlag = (flag: Flag, edits: Edits): Promise<Flag | undefined> => {
  if (isAbsent(flag)) {
    return runAction(
      'featureFlags.edit',
      { ...inputOf(flag), body: { enabled: flag.enabled, ...edits } },
      {
        done: (created) => text.changed(created),
        undo: () => runAction('featureFlags.delete', inputOf(flag), { done: text.removed(flag.key) }),
      },
    )
  }
  const former = Object.fromEntries(Object.keys(edits).map((name) => [name, flag[name as keyof Edits]])) as Edits
  return runAction(
    'featureFlags.edit',
    { ...inputOf(flag), body: edits },
    {
      done: (changed) => text.changed(changed),
      optimistic: () => ({ id: flag.id, patch: edits }),
      undo: () =>
        runAction(
          'featureFlags.edit',
          { ...inputOf(flag), body: former },
          { done: (changed) => text.changed(changed), optimistic: () => ({ id: flag.id, patch: former }) },
        ),
    },
  )
}

export const actions: readonly Action<Flag>[] = [
  {
    name: 'featureFlags.switchOn',
    title: text.switchOn,
    target: 'flag',
    needs: ['featureFlags.edit'],
    isAvailable: ({ enabled }) => !enabled,
    run: (flag) => editFlag(flag, { enabled: true }),
  },
  {
    name: 'featureFlags.switchOff',
    title: text.switchOff,
    target: 'flag',
    needs: ['featureFlags.edit'],
    isAvailable: ({ enabled }) => enabled,
    run: (flag) => editFlag(flag, { enabled: false }),
  },
  {
    name: 'featureFlags.delete',
    title: `${text.delete}…`,
    target: 'flag',
    needs: ['featureFlags.delete'],
    isDestructive: true,
    view: () => import('./delete.tsx'),
  },
]
