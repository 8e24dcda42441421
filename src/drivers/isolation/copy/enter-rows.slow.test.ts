import { entriesOf, TRIGGER_DISABLING_OWNER } from './enter-rows.fixture.ts'
import { SLOW_OWNERS } from './rows.fixture.ts'

entriesOf([...SLOW_OWNERS, TRIGGER_DISABLING_OWNER])
