/** Actions on dead letters and failed entries of the outbox. */
import type { Result } from '../../api/contract.ts'
import { runAction } from '../../data/queries.ts'
import type { Action } from '../../module.ts'
import type { DeadLetter } from './dead-letter.ts'
import { text } from './text.ts'

type Entry = Result<'outbox.list'>['data'][number]

const ofLetter: readonly Action<DeadLetter>[] = [
  {
    name: 'deadLetters.retry',
    title: text.retry,
    target: 'deadLetter',
    key: 'r',
    needs: ['deadLetters.retry'],
    run: ({ id }) => runAction('deadLetters.retry', { params: { deadLetterId: id } }, { done: text.retried }),
  },
  {
    name: 'deadLetters.delete',
    title: `${text.delete}…`,
    target: 'deadLetter',
    needs: ['deadLetters.delete'],
    isDestructive: true,
    view: () => import('./delete-dead-letter.tsx'),
  },
]

const ofEntry: readonly Action<Entry>[] = [
  {
    name: 'outbox.retry',
    title: text.retry,
    target: 'outboxEntry',
    key: 'r',
    needs: ['outbox.retry'],
    run: ({ id }) =>
      runAction(
        'outbox.retry',
        { body: { id } },
        { done: ({ applied, failed }) => text.outboxRetried(applied, failed) },
      ),
  },
]

export const systemActions: readonly Action[] = [...ofLetter, ...ofEntry]
