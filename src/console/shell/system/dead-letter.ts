/** A dead letter in the list. */
import type { Result } from '../../api/contract.ts'

export type DeadLetter = Result<'deadLetters.list'>['data'][number]
