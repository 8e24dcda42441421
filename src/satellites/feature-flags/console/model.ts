/** A flag of a tenant, and a key without a flag. */
import type { Result } from '../../../console/api/contract.ts'

export type Flag = Result<'featureFlags.get'>
/** Members that the console changes. */
export type Edits = Partial<Pick<Flag, 'enabled' | 'rolloutPercent' | 'bucketKey'>>

/** Path of a flag below its tenant. */
export const flagPath = (key: string): string => `flags/${encodeURIComponent(key)}`

/** What the page of a key shows while the tenant has no such flag: its rollout begins with 0 %. */
export const absentFlag = (tenantId: string, key: string): Flag => ({
  id: ABSENT,
  tenantId,
  key,
  enabled: true,
  rolloutPercent: 0,
  bucketKey: null,
  createdAt: '',
  updatedAt: '',
})

const ABSENT = ''
export const isAbsent = ({ id }: Flag): boolean => id === ABSENT
