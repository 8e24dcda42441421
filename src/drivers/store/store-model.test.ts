import { countersModel } from './store-model.fixture.ts'

countersModel(15)
