import { coverPart } from './coverage.ts'
import { migrations } from './migrations.ts'

coverPart(migrations)
