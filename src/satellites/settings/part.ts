/** Declarations of settings. */
import { part } from '../../kernel/part.ts'
import type { Settings } from './settings.ts'

export const { operation, resource } = part<Settings<any>>()
