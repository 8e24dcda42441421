import { sessionSettings } from './session-settings.fixture.ts'
import { SLOW_KINDS } from './subject.fixture.ts'

sessionSettings(SLOW_KINDS)
