import { importsOfRows } from './copy-in-shared.fixture.ts'
import { FAST_OWNERS } from './rows.fixture.ts'

importsOfRows(FAST_OWNERS)
