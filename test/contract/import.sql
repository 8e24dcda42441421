-- Imported by the case of tenant:import.
insert into notes (text) values ('first'), ('second');
