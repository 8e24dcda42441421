import { importsOfRows } from './copy-in-rows.fixture.ts'
import { FAST_OWNERS } from './copy-rows.fixture.ts'

importsOfRows(FAST_OWNERS)
