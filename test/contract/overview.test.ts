import { coverPart } from './coverage.ts'
import { overview } from './overview.ts'

coverPart(overview)
