-- What is in scripts that know of no calls that are booked: they do not grow by those that do.

--@ begin

--@ load
if booked > 0 then return '' end -- nothing is done: it is for the script that knows

--@ open

--@ stand

--@ fits

--@ charge
--@ each charge

--@ said
news[id], fresh[#fresh + 1] = said, said

--@ store

--@ back
--@ each refund
