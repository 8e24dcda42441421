/** Actions and keys of impersonation. */
import type { Action, GlobalKey } from '../../../console/module.ts'
import { endImpersonation, type Impersonation, newestStore, stateOf } from './impersonation.ts'
import { text } from './text.ts'

export const keys: readonly GlobalKey[] = [
  {
    key: 'Escape',
    title: text.endNewest,
    needs: ['impersonations.listAll', 'impersonations.end'],
    isAvailable: () => newestStore.get() !== undefined,
    run: () => {
      const newest = newestStore.get()
      return newest && endImpersonation(newest)
    },
  },
]

export const actions: readonly Action[] = [
  {
    name: 'impersonations.start',
    title: `${text.start}…`,
    target: 'tenant',
    needs: ['impersonations.start'],
    isAvailable: ({ status }) => status === 'active',
    view: () => import('./start.tsx'),
  },
  {
    name: 'impersonations.end',
    title: text.end,
    target: 'impersonation',
    needs: ['impersonations.end'],
    isAvailable: (one: Impersonation) => stateOf(one) === 'active',
    run: endImpersonation,
  },
]
