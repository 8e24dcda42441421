/** A flag of a tenant. */
import type { Result } from '../../../console/api/contract.ts'

export type Flag = Result<'featureFlags.get'>
/** Members that the console changes. */
export type Edits = Partial<Pick<Flag, 'enabled' | 'rolloutPercent' | 'bucketKey'>>
