import { access } from './access.ts'
import { coverPart } from './coverage.ts'

coverPart(access)
