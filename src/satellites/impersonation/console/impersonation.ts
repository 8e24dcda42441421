/** The impersonation as the screens see it, and its action. */
import { type Item, runAction } from '../../../console/data/queries.ts'
import { createStore } from '../../../console/data/store.ts'
import type { Action, GlobalKey } from '../../../console/module.ts'
import { text } from './text.ts'

export type Impersonation = Item<'impersonations.list'>
export type State = 'active' | 'ended' | 'expired'

export const stateOf = ({ endedAt, expiresAt }: Impersonation): State => {
  if (endedAt) return 'ended'
  return Date.parse(expiresAt) > Date.now() ? 'active' : 'expired'
}

export const endImpersonation = ({
  sessionId,
  userId,
}: Pick<Impersonation, 'sessionId' | 'userId'>): Promise<unknown> =>
  runAction('impersonations.end', { params: { sessionId } }, { done: text.ended(userId) })

/** The newest active one of the operator, which the bar reads. */
export const newestStore = createStore<Impersonation | undefined>(undefined)

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
