import { FAST_OWNERS } from './copy-rows.fixture.ts'
import { entriesOf } from './row-entry.fixture.ts'

entriesOf(FAST_OWNERS)
