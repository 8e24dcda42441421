/** The impersonation as the screens see it, and its action. */
import { type Item, runAction } from '../../../console/data/queries.ts'
import type { Action } from '../../../console/module.ts'
import { text } from './text.ts'

export type Impersonation = Item<'impersonations.list'>
export type State = 'active' | 'ended' | 'expired'

export const stateOf = ({ endedAt, expiresAt }: Impersonation): State => {
  if (endedAt) return 'ended'
  return Date.parse(expiresAt) > Date.now() ? 'active' : 'expired'
}

export const endImpersonation = ({ sessionId, userId }: Impersonation): Promise<unknown> =>
  runAction('impersonations.end', { params: { sessionId } }, { done: text.ended(userId) })

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
