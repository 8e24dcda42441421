/** The impersonation as the screens see it, and its end. */
import { type Item, runAction } from '../../../console/data/queries.ts'
import { createStore } from '../../../console/data/store.ts'
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
