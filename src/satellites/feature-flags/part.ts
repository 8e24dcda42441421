/** Declarations of feature flags. */
import { part } from '../../kernel/part.ts'
import type { FeatureFlags } from './feature-flags.ts'

export const { operation, resource, command, on } = part<FeatureFlags>()
