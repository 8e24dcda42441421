import { entriesOf } from './enter-rows.fixture.ts'
import { FAST_OWNERS } from './rows.fixture.ts'

entriesOf(FAST_OWNERS)
