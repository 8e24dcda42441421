import { backups } from './backups.ts'
import { coverPart } from './coverage.ts'

coverPart(backups)
